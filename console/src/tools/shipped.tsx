import { lazy, Suspense, type ReactNode } from "react";
import type { ToolComponent, ToolProps } from "@jackfield/react";
import { Choice } from "./choice";
import { Confirm } from "./confirm";
import { DisplayFile, DisplayImage } from "./images";
import { Question } from "./question";
import { DisplayTable } from "./table";

const LazyChart = lazy(() => import("./chart"));

function Chart(props: ToolProps): ReactNode {
  return (
    <Suspense fallback={<div className="chart quiet">Loading the chart …</div>}>
      <LazyChart {...props} />
    </Suspense>
  );
}

/** The included components, by tool name. */
export const SHIPPED: Record<string, ToolComponent> = {
  confirmAction: Confirm,
  chooseOption: Choice,
  displayChart: Chart,
  displayTable: DisplayTable,
  displayImage: DisplayImage,
  displayFile: DisplayFile,
  elicitation: Question,
};
