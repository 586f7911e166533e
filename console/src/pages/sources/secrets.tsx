import { useState, type ReactNode } from "react";
import { client, useData } from "../../data";
import { useAction } from "../../parts/action";
import { Badge } from "../../parts/badge";
import { Field } from "../../parts/field";
import { Fault } from "../../parts/states";

interface SecretRecord {
  name: string;
}

/** The secrets that a draft names as `${NAME}`: whether each is set, and a field that only writes. */
export function NamedSecrets({ names }: { names: readonly string[] }): ReactNode {
  const { data, mutate } = useData<{ secrets: SecretRecord[] }>(names.length > 0 ? "/api/v1/secrets" : null);
  if (names.length === 0 || data === undefined) return null;
  return (
    <fieldset className="secrets">
      <legend>Secrets</legend>
      <p className="quiet">They are kept encrypted, and no value is ever shown.</p>
      {names.map((name) => (
        <OneSecret key={name} name={name} isSet={data.secrets.some((one) => one.name === name)} onSet={() => void mutate()} />
      ))}
    </fieldset>
  );
}

function OneSecret({ name, isSet, onSet }: { name: string; isSet: boolean; onSet: () => void }): ReactNode {
  const [value, setValue] = useState("");
  const [isChanging, setIsChanging] = useState(false);
  const save = useAction();
  if (isSet && !isChanging) {
    return (
      <p className="with-marks">
        <code>{name}</code> <Badge tone="good">set</Badge>
        <button type="button" className="plain" onClick={() => setIsChanging(true)}>
          Set another value
        </button>
      </p>
    );
  }
  const keep = (): void =>
    void save.run(async () => {
      await client.put(`/api/v1/secrets/${encodeURIComponent(name)}`, { value });
      setValue("");
      setIsChanging(false);
      onSet();
    });
  return (
    <>
      <div className="inline-field">
        <Field label={`Value of ${name}`} hint={isSet ? undefined : "Not set here. A variable of the gateway's environment may have it, if [admin] secrets names it."}>
          <input type="password" autoComplete="off" value={value} onChange={(event) => setValue(event.target.value)} />
        </Field>
        <button type="button" disabled={value === "" || save.isBusy} onClick={keep}>
          Set secret
        </button>
      </div>
      {save.fault !== null && <Fault error={save.fault} />}
    </>
  );
}
