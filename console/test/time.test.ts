import { expect, test } from "vitest";
import { took } from "../src/time";

test("a duration is rounded as a whole, never to 60 seconds", () => {
  expect(took(0.2)).toBe("1 ms");
  expect(took(999.7)).toBe("1.0 s");
  expect(took(59_940)).toBe("59.9 s");
  expect(took(59_990)).toBe("1 min 0 s");
  expect(took(779_900)).toBe("13 min 0 s");
  expect(took(7_805_000)).toBe("2 h 10 min");
});
