import { describe, expect, it } from "vitest";
import { counts, pack, stateOf, unpack, withLetter } from "./states";

describe("packed states", () => {
  it("come back as they were packed", () => {
    for (const status of ["pending", "ready", "running", "retrying", "waiting", "success", "failed", "skipped", "upstream_failed", "cancelled", "resolved_manually"]) {
      expect(unpack(pack(status))).toBe(status);
    }
    expect(unpack(".")).toBe("");
    expect(pack("nonsense")).toBe(".");
  });
  it("change one letter", () => {
    expect(withLetter("sss", 1, "failed")).toBe("sfs");
    expect(withLetter("sss", 3, "failed")).toBe("sss");
    expect(withLetter("sss", -1, "failed")).toBe("sss");
  });
  it("are counted with the urgent ones first", () => {
    expect(counts("ssfr.u")).toEqual([["failed", 1], ["upstream_failed", 1], ["running", 1], ["success", 2]]);
  });
  it("have a family whatever the server says", () => {
    expect(stateOf("upstream_failed")).toEqual({ word: "upstream failed", family: "failed", shape: "hollow-cross" });
    expect(stateOf("brand_new").word).toBe("brand new");
  });
});
