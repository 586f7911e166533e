/**
 * A call once more, with the same arguments or others: a new call through the pipeline, whose record names the first.
 * Where the tool needs approval, or the call may change something, it says so and asks before it is made.
 */
import { useRef, useState, type ReactNode } from "react";
import { Link } from "wouter";
import { useData, type CallRecord, type ToolDefinition } from "../data";
import { safeText } from "../safe-text";
import { Confirm } from "./dialog";
import { Fault, Loading } from "./states";
import TryIt from "./try-it";

interface EffectiveTool {
  tool: ToolDefinition;
  enabled: boolean;
  requires_approval: boolean;
}

export default function Replay({ call, argumentsText }: { call: CallRecord; argumentsText: string }): ReactNode {
  const { data, error, mutate } = useData<{ tools: EffectiveTool[] }>("/api/v1/tools/set");
  const [made, setMade] = useState<string | null>(null);
  const [isAsking, setIsAsking] = useState(false);
  const answer = useRef<(isYes: boolean) => void>(() => undefined);
  if (error !== undefined && data === undefined) return <Fault error={error} onRetry={() => void mutate()} />;
  if (data === undefined) return <Loading what="the tool" />;
  const tool = data.tools.find((one) => one.tool.name === call.tool);
  if (tool === undefined) return <p className="advice">The tool is no longer in the catalog, or you may not see it.</p>;
  const ask = (): Promise<boolean> => {
    setIsAsking(true);
    return new Promise((resolve) => (answer.current = resolve));
  };
  const close = (isYes: boolean): void => {
    setIsAsking(false);
    answer.current(isYes);
  };
  const name = safeText(call.tool, 80);
  return (
    <div className="stack-small">
      {tool.requires_approval && <p className="advice">{name} needs approval. The replay waits until somebody has approved it.</p>}
      {!tool.enabled && <p className="advice">{name} is switched off, so the call will be refused.</p>}
      <TryIt
        key={call.id}
        tool={tool.tool}
        start={argumentsText}
        replayOf={call.id}
        {...(tool.requires_approval ? { ask } : {})}
        onCalled={setMade}
      />
      {made !== null && (
        <p>
          <Link href={`/calls/${encodeURIComponent(made)}`}>Open the new call</Link>
        </p>
      )}
      <Confirm
        title={`Ask for approval of ${name}?`}
        verb="Call tool"
        isOpen={isAsking}
        onConfirm={() => Promise.resolve(answer.current(true))}
        onClose={() => close(false)}
      >
        <p>The call goes on record and waits. Whoever may approve it sees these arguments under Waiting.</p>
      </Confirm>
    </div>
  );
}
