import { describe, expect, it } from "vitest";
import { visible } from "./virtual";

describe("long lists", () => {
  it("draw what is in view and a little around it", () => {
    expect(visible(0, 20, 0, 400)).toEqual({ first: 0, last: 0, before: 0, after: 0 });
    expect(visible(100_000, 20, 0, 400, 5)).toEqual({ first: 0, last: 25, before: 0, after: 99_975 * 20 });
    const end = visible(100_000, 20, 100_000 * 20, 400, 5);
    expect(end.last).toBe(100_000);
    for (const top of [0, 1, 999, 12_345, 1_999_000]) {
      const { first, last, before, after } = visible(100_000, 20, top, 400);
      expect(before + (last - first) * 20 + after).toBe(100_000 * 20);
      expect(first * 20).toBeLessThanOrEqual(top);
    }
  });
});
