import { describe, expect, it } from "vitest";
import { diffLines } from "./diff";

const marks = (before: string, after: string): string => diffLines(before, after).map((line) => ({ same: " ", added: "+", removed: "-" })[line.kind] + line.text).join("|");

describe("differences", () => {
  it("are the lines that were added and removed", () => {
    expect(marks("a\nb\nc", "a\nx\nc")).toBe(" a|-b|+x| c");
    expect(marks("a\nb", "a\nb")).toBe(" a| b");
    expect(marks("", "a")).toBe("-|+a");
    expect(marks("a\nb\nc\nd", "b\nd\ne")).toBe("-a| b|-c| d|+e");
  });
  it("number both sides", () => {
    const lines = diffLines("a\nb\nc", "a\nc\nd");
    expect(lines.map((line) => [line.left, line.right])).toEqual([[1, 1], [2, null], [3, 2], [null, 3]]);
  });
  it("end for texts that have nothing in common", () => {
    const long = (letter: string): string => Array.from({ length: 5000 }, (_, i) => letter + i).join("\n");
    expect(diffLines(long("a"), long("b")).length).toBe(10_000);
  });
});
