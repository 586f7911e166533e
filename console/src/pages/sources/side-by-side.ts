/**
 * Two texts line by line, for reading beside each other: `sideBySide(before, after)` gives pairs, with null where one has
 * no such line. Longest common subsequence; very long texts are compared by their beginning and end only. Pure.
 */

export interface Pair {
  before: string | null;
  after: string | null;
}

const MOST_CELLS = 1_000_000;

export function sideBySide(before: readonly string[], after: readonly string[]): Pair[] {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start++;
  let end = 0;
  while (end < before.length - start && end < after.length - start && before[before.length - 1 - end] === after[after.length - 1 - end]) end++;
  const same = (lines: readonly string[]): Pair[] => lines.map((line) => ({ before: line, after: line }));
  return [
    ...same(before.slice(0, start)),
    ...paired(changed(before.slice(start, before.length - end), after.slice(start, after.length - end))),
    ...same(end === 0 ? [] : before.slice(before.length - end)),
  ];
}

/** What goes and what comes, in order. */
function changed(gone: readonly string[], come: readonly string[]): Pair[] {
  if (gone.length * come.length > MOST_CELLS) return [...gone.map((before) => ({ before, after: null })), ...come.map((after) => ({ before: null, after }))];
  const width = come.length + 1;
  const lengths = new Uint32Array((gone.length + 1) * width);
  for (let one = gone.length - 1; one >= 0; one--)
    for (let other = come.length - 1; other >= 0; other--)
      lengths[one * width + other] = gone[one] === come[other] ? lengths[(one + 1) * width + other + 1]! + 1 : Math.max(lengths[(one + 1) * width + other]!, lengths[one * width + other + 1]!);
  const pairs: Pair[] = [];
  let one = 0;
  let other = 0;
  while (one < gone.length || other < come.length) {
    if (one < gone.length && other < come.length && gone[one] === come[other]) pairs.push({ before: gone[one++]!, after: come[other++]! });
    else if (other >= come.length || (one < gone.length && lengths[(one + 1) * width + other]! >= lengths[one * width + other + 1]!)) pairs.push({ before: gone[one++]!, after: null });
    else pairs.push({ before: null, after: come[other++]! });
  }
  return pairs;
}

/** A line that goes, beside the one that comes in its place. */
function paired(pairs: readonly Pair[]): Pair[] {
  const result: Pair[] = [];
  let gone: string[] = [];
  let come: string[] = [];
  const flush = (): void => {
    for (let place = 0; place < Math.max(gone.length, come.length); place++) result.push({ before: gone[place] ?? null, after: come[place] ?? null });
    gone = [];
    come = [];
  };
  for (const pair of pairs) {
    if (pair.before !== null && pair.after !== null) {
      flush();
      result.push(pair);
    } else if (pair.before !== null) gone.push(pair.before);
    else if (pair.after !== null) come.push(pair.after);
  }
  flush();
  return result;
}
