/**
 * A labelled field of a form: `<Field label="Name" hint="Letters, digits, _ or -"><input …/></Field>`. The hint is read
 * with the field; `fault` replaces it. The child gets the id and the descriptions, so it must be one form element.
 */
import { cloneElement, useId, type ReactElement, type ReactNode } from "react";

export function Field({ label, hint, fault, children }: { label: string; hint?: ReactNode; fault?: string | null | undefined; children: ReactElement<{ id?: string; "aria-describedby"?: string; "aria-invalid"?: boolean }> }): ReactNode {
  const id = useId();
  const said = fault ?? hint;
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {cloneElement(children, { id, ...(said === undefined || said === null ? {} : { "aria-describedby": `${id}-hint` }), ...(fault ? { "aria-invalid": true } : {}) })}
      {said !== undefined && said !== null && (
        <p id={`${id}-hint`} className={fault ? "error-detail" : "quiet hint"}>
          {said}
        </p>
      )}
    </div>
  );
}
