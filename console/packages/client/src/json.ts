/** Numbers of so many digits may be rounded; the quick look spares most answers the slow way. */
const LARGE = /[:[,]\s*-?\d{16,}/;
const RAW = JSON as typeof JSON & { rawJSON?: (text: string) => unknown };

/** JSON in which integers beyond 2^53 keep their digits: shown and sent as they came, where the engine can. */
export function parsed(text: string): unknown {
  if (RAW.rawJSON === undefined || !LARGE.test(text)) return JSON.parse(text);
  const kept = (_key: string, value: unknown, context?: { source?: string }): unknown =>
    typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && context?.source !== undefined ? RAW.rawJSON!(context.source) : value;
  return JSON.parse(text, kept as (key: string, value: unknown) => unknown);
}

/** The same, or undefined for what is no JSON. */
export function tryParse(text: string): unknown {
  try {
    return parsed(text);
  } catch {
    return undefined;
  }
}
