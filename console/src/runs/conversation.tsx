/** What the model was sent in each step, and what it said: every message as the model saw it, as text. */
import { useMemo, useState, type ReactNode } from "react";
import { Badge } from "../parts/badge";
import { Facts } from "../parts/facts";
import { Empty } from "../parts/states";
import { LongText, Tree } from "../parts/tree";
import { counted, inOneLine, safeText } from "../safe-text";
import { took } from "../time";
import { costOf, textOf, tokensOf, type Item, type Step, type WholeRun } from "./records";

interface SeenStep {
  step: Step;
  /** What the model knew before this step, as far as it was sent again. */
  before: Item[];
  sent: Item[];
  instructions: string;
  tools: string[];
}

export function Conversation({ run }: { run: WholeRun }): ReactNode {
  const steps = useMemo(() => seenSteps(run.steps), [run.steps]);
  if (steps.length === 0) return <Empty title="No messages on record">What a model is sent is kept for runs with steps of a model.</Empty>;
  return (
    <ol className="steps">
      {steps.map((seen) => (
        <li key={seen.step.n} id={`messages-${seen.step.n}`}>
          <SeenStepView seen={seen} />
        </li>
      ))}
    </ol>
  );
}

function SeenStepView({ seen: { step, before, sent, instructions, tools } }: { seen: SeenStep }): ReactNode {
  const [isWhole, setIsWhole] = useState(false);
  const { messages } = step;
  const earlier = (messages?.kept ?? 0) - before.length;
  return (
    <section className="seen-step" aria-label={`Messages of step ${step.n}`}>
      <h2>
        Step {step.n} <span className="quiet">{[step.model ?? "", tokensOf(step), step.modelMs === null ? "" : took(step.modelMs)].filter(Boolean).join(" · ")}</span>
      </h2>
      <Facts facts={[["Tools", tools.length === 0 ? "none" : null], ["Tool choice", messages?.toolChoice], ["Cost", costOf(step.cost)], ["Finish", step.finish], ["Retries", step.retries === 0 ? null : step.retries]]} />
      {tools.length > 0 && (
        <details>
          <summary className="quiet">{counted(tools.length, "tool")} shown to the model</summary>
          <p className="text">{safeText(tools.join(", "), 20_000)}</p>
        </details>
      )}
      {instructions !== "" && <Message role="instructions" text={instructions} />}
      {earlier > 0 && <p className="quiet">It also knew {counted(earlier, "message")} of earlier runs.</p>}
      {before.length > 0 && !isWhole && (
        <p>
          <button type="button" className="plain" onClick={() => setIsWhole(true)}>
            {counted(before.length, "message")} of the steps before
          </button>
        </p>
      )}
      {isWhole && before.map((item, place) => <ItemView key={`b${place}`} item={item} of={nameOf(item, before)} />)}
      {(messages?.leftOut ?? 0) > 0 && <p className="quiet">{counted(messages!.leftOut, "older message")} of this step are not on record: there were too many.</p>}
      {sent.map((item, place) => (
        <ItemView key={place} item={item} of={nameOf(item, before)} />
      ))}
      <h3>It said</h3>
      {step.error !== null && <p className="fault">{safeText(step.error.message)}</p>}
      {step.items.length === 0 && step.error === null && <p className="quiet">Nothing.</p>}
      {step.items.map((item, place) => (
        <ItemView key={place} item={item} />
      ))}
    </section>
  );
}

/** The tool whose result an item is, by the call among what was said before. */
function nameOf(item: Item, before: readonly Item[]): string | null {
  const call = before.find((one) => one["call_id"] !== undefined && one["call_id"] === item["call_id"] && typeof one["name"] === "string");
  return call === undefined ? null : String(call["name"]);
}

/** One item of a conversation; `of`: the tool whose result it is. */
export function ItemView({ item, of = null }: { item: Item; of?: string | null }): ReactNode {
  if (typeof item["name"] === "string" && (item["arguments"] !== undefined || item["input"] !== undefined)) {
    return (
      <div className="seen-item call">
        <Badge tone="busy">call</Badge> <code>{safeText(item["name"], 120)}</code>
        <Tree value={parsed(item["arguments"] ?? item["input"])} />
      </div>
    );
  }
  if (item["output"] !== undefined) {
    return (
      <div className="seen-item">
        <Badge tone="none">result</Badge> {of !== null && <code>{safeText(of, 120)}</code>}
        <Tree value={parsed(item["output"])} />
      </div>
    );
  }
  const text = textOf(item);
  if (text === "") return <div className="seen-item quiet">{inOneLine(item, 400)}</div>;
  return <Message role={item.type === "message" ? String(item["role"] ?? "message") : item.type} text={text} />;
}

function Message({ role, text }: { role: string; text: string }): ReactNode {
  return (
    <div className="seen-item">
      <Badge tone={role === "assistant" ? "busy" : "none"}>{safeText(role, 40)}</Badge>
      <p className="text">
        <LongText text={text} />
      </p>
    </div>
  );
}

/** Each step with the conversation as it was: the first `kept` of before, then what was sent anew. */
export function seenSteps(steps: readonly Step[]): SeenStep[] {
  let known: Item[] = [];
  let instructions = "";
  let tools: string[] = [];
  return steps
    .filter((step) => step.messages !== undefined)
    .map((step) => {
      const { kept, sent, instructions: said, tools: shown } = step.messages!;
      instructions = said ?? instructions;
      tools = shown ?? tools;
      const before = known.slice(0, kept);
      known = [...before, ...sent, ...step.items];
      return { step, before, sent, instructions, tools };
    });
}

function parsed(value: unknown): unknown {
  if (typeof value !== "string") return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}
