import { describe, expect, it } from "vitest";
import { Exact, named, parseExact, pretty } from "./json";

describe("JSON", () => {
  it("keeps every digit of an integer", () => {
    const text = '{"id": 12345678901234567890, "list": [-9007199254740993, 7], "text": "12345678901234567890", "near": 9007199254740991, "f": 1.5e3}';
    const value = parseExact(text) as Record<string, unknown>;
    expect(value.id).toBeInstanceOf(Exact);
    expect(value.near).toBe(9007199254740991);
    expect(value.text).toBe("12345678901234567890");
    const shown = pretty(value);
    expect(shown).toContain("12345678901234567890");
    expect(shown).toContain("-9007199254740993");
    expect(shown).toContain("1500");
  });
  it("is not misled by what stands in texts", () => {
    expect(parseExact('{"a": "\\"1234567890123456789012", "b": "x"}')).toEqual({ a: '"1234567890123456789012', b: "x" });
    expect(pretty({ a: [], b: {}, c: null, d: "x\n" })).toBe('{\n  "a": [],\n  "b": {},\n  "c": null,\n  "d": "x\\n"\n}');
  });
  it("names the item of a list in one line", () => {
    expect([named("Oslo"), named(7), named({ os: "linux", version: 2 }), named([1, 2])]).toEqual(["Oslo", "7", "os=linux version=2", "[1,2]"]);
  });
});
