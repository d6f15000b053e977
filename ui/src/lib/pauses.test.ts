import { describe, expect, it } from "vitest";
import { covers, named, pauseOf, stopped, wanted } from "./pauses";

const EVERYTHING = {};
const QUEUE = { namespace: null, queue: "gpu" };
const NAMESPACE = { namespace: "sales" };
const BOTH = { namespace: "sales", queue: "gpu" };

describe("pauses", () => {
  it("cover what they name and no more", () => {
    const of = (scope: object) => [covers(scope, "sales", "gpu"), covers(scope, "sales", "mail"), covers(scope, "default", "gpu")];
    expect(of(EVERYTHING)).toEqual([true, true, true]);
    expect(of(QUEUE)).toEqual([true, false, true]);
    expect(of(NAMESPACE)).toEqual([true, true, false]);
    expect(of(BOTH)).toEqual([true, false, false]);
  });
  it("are found by a queue, the widest first", () => {
    expect(pauseOf([QUEUE, BOTH], "sales", "gpu")).toBe(QUEUE);
    expect(pauseOf([NAMESPACE], "default", "gpu")).toBeUndefined();
  });
  it("are named", () => {
    expect([EVERYTHING, QUEUE, NAMESPACE, BOTH].map(named)).toEqual(["everything", "queue gpu", "namespace sales", "queue gpu in namespace sales"]);
    expect([EVERYTHING, BOTH].map(stopped)).toEqual(["No task is started in any namespace", "No task of queue gpu is started in namespace sales"]);
  });
  it("are asked for by what they name alone", () => {
    expect([EVERYTHING, QUEUE, NAMESPACE, BOTH].map(wanted)).toEqual([{ all: true }, { queue: "gpu" }, { namespace: "sales" }, { namespace: "sales", queue: "gpu" }]);
  });
});
