import { describe, expect, it } from "vitest";
import { matchPath, path, query } from "./match";

describe("paths", () => {
  it("finds parameters, decoded, and nothing that is longer or shorter", () => {
    expect(matchPath("/r/:id/log", "/r/7/log")).toEqual({ id: "7" });
    expect(matchPath("/w/:namespace/:name", "/w/a%2Fb/c%20d")).toEqual({ namespace: "a/b", name: "c d" });
    expect(matchPath("/", "/")).toEqual({});
    for (const wrong of ["/r/7", "/r/7/log/x", "/r//log", "/x/7/log", "/r/%E0%A4%A/log"]) expect(matchPath("/r/:id/log", wrong)).toBeNull();
  });
  it("writes data as data", () => {
    expect(path`/w/${"a/b"}/${"?x#"}`).toBe("/w/a%2Fb/%3Fx%23");
    expect(query({ a: "x&y", b: null, c: "", d: 0, e: false, f: true })).toBe("?a=x%26y&d=0&f=true");
    expect(query({})).toBe("");
  });
});
