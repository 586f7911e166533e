import { lazy, Suspense, type ReactNode } from "react";
import type { ToolComponent, ToolProps } from "@jackfield/react";
import { Confirm } from "./confirm";

const LazyChart = lazy(() => import("./chart"));

function Chart(props: ToolProps): ReactNode {
  return (
    <Suspense fallback={<div className="chart quiet">Loading the chart …</div>}>
      <LazyChart {...props} />
    </Suspense>
  );
}

/** The components that come along, by the name of their tool. */
export const SHIPPED: Record<string, ToolComponent> = {
  confirmAction: Confirm,
  displayChart: Chart,
};
