import { describe, expect, it } from "vitest";
import { lanesOf, ticksOf } from "../src/runs/waterfall";
import type { RunCall, Step, WholeRun } from "../src/runs/records";

const START = "2026-01-01T00:00:00.000Z";
const at = (seconds: number): string => new Date(Date.parse(START) + seconds * 1000).toISOString();
const now = Date.parse(at(20));

function runOf(more: Partial<WholeRun>): WholeRun {
  return { id: "resp_1", kind: "response", status: "running", createdAt: START, finishedAt: null, steps: [], calls: [], ...more } as WholeRun;
}

function stepOf(more: Partial<Step>): Step {
  return { n: 1, items: [], askedAt: at(1), firstAt: null, answeredAt: at(3), recordedAt: null, modelMs: 2000, error: null, calls: [], ...more } as Step;
}

function callOf(more: Partial<RunCall>): RunCall {
  return { id: "call_1", tool: "add", status: "completed", created_at: at(3), started_at: at(3), finished_at: at(5), execution_time_ms: 2000, ...more } as RunCall;
}

describe("the model that is being asked", () => {
  it("has a bar from the end of what is on record until now", () => {
    const lanes = lanesOf(runOf({ steps: [stepOf({ calls: [callOf({})] })] }), now);
    expect(lanes.map(({ name }) => name)).toEqual(["step 1", "add", "step 2"]);
    expect(lanes[2]!.bars[0]).toMatchObject({ from: Date.parse(at(5)), to: now });
    expect(lanes[2]!.lasted).toBe("15.0 s so far");
  });

  it("has one before the first answer too", () => {
    expect(lanesOf(runOf({}), now).map(({ name, lasted }) => [name, lasted])).toEqual([["step 1", "20.0 s so far"]]);
  });

  it.each([
    ["a call runs", { steps: [stepOf({ calls: [callOf({ status: "running", finished_at: null })] })] }],
    ["it is parked", { status: "parked", steps: [stepOf({})] }],
    ["it is over", { status: "completed", finishedAt: at(9), steps: [stepOf({})] }],
    ["it is a program", { kind: "program" }],
  ])("has none while %s", (_, more) => {
    expect(lanesOf(runOf(more as Partial<WholeRun>), now).some(({ key }) => key === "asked")).toBe(false);
  });
});

describe("the ticks of the time axis", () => {
  it.each([
    [1300, [0, 200, 400, 600, 800, 1000, 1200]],
    [38_000, [0, 5000, 10_000, 15_000, 20_000, 25_000, 30_000, 35_000]],
    [95_000, [0, 15_000, 30_000, 45_000, 60_000, 75_000, 90_000]],
  ])("are round for %i ms", (whole, ticks) => {
    expect(ticksOf(whole)).toEqual(ticks);
  });

  it("are few however long it takes", () => {
    for (const whole of [1, 12, 999, 60_001, 3_600_000, 86_400_000, 40 * 86_400_000]) expect(ticksOf(whole).length).toBeLessThanOrEqual(9);
  });
});
