import { describe, expect, it } from "vitest";
import { count, daysLater, duration, instant, midnight, offset, percent, relative, sentence, shortId, wall } from "./format";

const AT = Date.parse("2026-03-29T00:30:00Z");

describe("times", () => {
  it("carry their offset, also where the clock is changed", () => {
    expect(wall(AT, "Europe/Berlin") + offset(AT, "Europe/Berlin")).toBe("2026-03-29 01:30:00+01:00");
    expect(wall(AT + 3_600_000, "Europe/Berlin") + offset(AT + 3_600_000, "Europe/Berlin")).toBe("2026-03-29 03:30:00+02:00");
    expect(instant(AT, AT, "utc")).toBe("00:30:00Z");
    expect(instant(AT, AT + 86_400_000 * 3, "America/New_York")).toBe("28 Mar 20:30-04:00");
    expect(instant(AT, AT + 86_400_000 * 400, "utc")).toBe("29 Mar 2026 00:30Z");
    expect(offset(AT, "Asia/Kathmandu")).toBe("+05:45");
  });
  it("are told from now", () => {
    expect(relative(1000, 1000)).toBe("now");
    expect(relative(0, 12_000)).toBe("12 s ago");
    expect(relative(3_600_000 * 5, 0)).toBe("in 5 h");
    expect(relative(-86_400_000 * 3, 0)).toBe("3 d ago");
  });
});
describe("days", () => {
  it("begin at midnight of their zone, also where the clock is changed", () => {
    const hours = (day: string, zone: string) => (midnight(daysLater(day, 1), zone) - midnight(day, zone)) / 3_600_000;
    expect(new Date(midnight("2026-03-29", "Europe/Berlin")).toISOString()).toBe("2026-03-28T23:00:00.000Z");
    expect(["2026-03-28", "2026-03-29", "2026-03-30"].map((day) => hours(day, "Europe/Berlin"))).toEqual([24, 23, 24]);
    expect(["2026-10-25", "2026-10-26"].map((day) => hours(day, "Europe/Berlin"))).toEqual([25, 24]);
    expect(hours("2026-11-01", "America/New_York")).toBe(25);
    expect(midnight("2026-03-29", "utc")).toBe(Date.parse("2026-03-29T00:00:00Z"));
  });
  it("follow one another over months and years", () => {
    expect([daysLater("2026-12-31", 1), daysLater("2026-03-01", -1), daysLater("2028-02-28", 1)]).toEqual(["2027-01-01", "2026-02-28", "2028-02-29"]);
  });
});
describe("what the server says", () => {
  it("becomes a sentence", () => {
    expect([sentence("the run is over"), sentence("Is it?")]).toEqual(["The run is over.", "Is it?"]);
  });
});
describe("numbers", () => {
  it("are short and exact enough", () => {
    expect([0, 850, 4200, 59_400, 187_000, 7_500_000, 273_600_000].map(duration)).toEqual(["0 ms", "850 ms", "4.2 s", "59 s", "3 m 07 s", "2 h 05 m", "3 d 4 h"]);
    expect(duration(null)).toBe("");
    expect(duration(-5)).toBe("0 ms");
    expect(count(1_234_567)).toBe("1\u202f234\u202f567");
    expect([0, 0.001, 0.5, 0.999, 1].map(percent)).toEqual(["0 %", "0.1 %", "50 %", "99.9 %", "100 %"]);
    expect(shortId("01a1eb14-b933-7045-a520-80d740cdb07d")).toBe("40cdb07d");
  });
});
