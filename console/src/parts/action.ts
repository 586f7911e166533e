/**
 * Something that a button does at the gateway: `const save = useAction(); <button disabled={save.isBusy} onClick={() =>
 * void save.run(async () => { await client.put(…); onChanged(); })}>`; `save.fault` is why it failed, for `<Fault>`.
 * `run` gives whether it was done, and does nothing while it runs.
 */
import { useCallback, useRef, useState } from "react";

export interface Action {
  isBusy: boolean;
  fault: Error | null;
  run: (work: () => Promise<unknown>) => Promise<boolean>;
  forget: () => void;
}

export function useAction(): Action {
  const [isBusy, setIsBusy] = useState(false);
  const [fault, setFault] = useState<Error | null>(null);
  const running = useRef(false);
  const run = useCallback(async (work: () => Promise<unknown>): Promise<boolean> => {
    if (running.current) return false;
    running.current = true;
    setIsBusy(true);
    setFault(null);
    try {
      await work();
      return true;
    } catch (refusal) {
      setFault(refusal as Error);
      return false;
    } finally {
      running.current = false;
      setIsBusy(false);
    }
  }, []);
  const forget = useCallback(() => setFault(null), []);
  return { isBusy, fault, run, forget };
}
