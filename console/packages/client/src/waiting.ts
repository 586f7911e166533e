/** Pauses: growing with each attempt, with a random share taken off, so that clients do not retry in step. */
export class Pauses {
  private attempt = 0;

  constructor(
    private readonly first = 100,
    private readonly longest = 10_000,
  ) {}

  next(): number {
    return Math.min(this.longest, this.first * 2 ** Math.min(this.attempt++, 30)) * (1 - Math.random() / 2);
  }

  reset(): void {
    this.attempt = 0;
  }
}

/** Resolves after a while, or rejects with the signal's reason. */
export function sleep(milliseconds: number, signal?: AbortSignal | null): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason as Error);
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal!.reason as Error);
    };
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** Values that one side adds and the other iterates over. */
export class Queue<T> implements AsyncIterable<T> {
  private readonly values: T[] = [];
  private wake: () => void = () => {};
  private isOver = false;

  push(value: T): void {
    this.values.push(value);
    this.wake();
  }

  end(): void {
    this.isOver = true;
    this.wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void> {
    for (;;) {
      while (this.values.length > 0) yield this.values.shift() as T;
      if (this.isOver) return;
      await new Promise<void>((resolve) => (this.wake = resolve));
    }
  }
}
