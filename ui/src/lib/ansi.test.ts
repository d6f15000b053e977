import { describe, expect, it } from "vitest";
import { spans, stripped } from "./ansi";

describe("lines of a log", () => {
  it("colours what a terminal would colour", () => {
    expect(spans("\u001b[31mred\u001b[0m plain \u001b[1;94mblue\u001b[22m x")).toEqual([
      { text: "red", classes: "fg1" },
      { text: " plain ", classes: "" },
      { text: "blue", classes: "fg12 bold" },
      { text: " x", classes: "fg12" },
    ]);
    expect(spans("\u001b[38;5;2mg\u001b[38;2;1;2;3mh")).toEqual([
      { text: "g", classes: "fg2" },
      { text: "h", classes: "fg2" },
    ]);
  });
  it("obeys nothing else", () => {
    expect(stripped("a\u001b[2J\u001b[10;10Hb\u001b]0;title\u0007c\u0008\u0000d")).toBe("abcd");
    expect(spans("<script>alert(1)</script>")).toEqual([{ text: "<script>alert(1)</script>", classes: "" }]);
    expect(spans("")).toEqual([]);
  });
  it("shows marks that turn the direction of text", () => {
    expect(stripped("user \u202egpj.exe")).toBe("user ⟨U+202E⟩gpj.exe");
  });
  it("takes a megabyte in its stride", () => {
    const line = "\u001b[32mx".repeat(100_000);
    expect(spans(line).length).toBe(100_000);
  });
});
