import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

const server = process.env.MAINSPRING_SERVER ?? "http://127.0.0.1:8080";

export default defineConfig({
  base: "/ui/",
  plugins: [svelte()],
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    cssCodeSplit: true,
    // The policy of the pages allows no script in the document.
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: {
    port: 5173,
    proxy: {
      "/api": { target: server, changeOrigin: false },
      "/ui/session": { target: server, changeOrigin: false },
      "/ws": { target: server, ws: true, changeOrigin: false },
    },
  },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
} as never);
