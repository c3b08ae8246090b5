import { Panel, useReactFlow, useStore } from "@xyflow/react";
import { Maximize, Minus, Plus } from "lucide-react";
import { type RefObject, useEffect } from "react";
import { Button } from "@/design";
import { graphTexts } from "@/texts/graph";

export const FIT = { padding: 0.12, maxZoom: 1 };

/** `wasMoved`: the user chose the visible part, so it stays when the window changes. */
export function GraphControls({ wasMoved }: { wasMoved: RefObject<boolean> }) {
  const { zoomIn, zoomOut, fitView } = useReactFlow();
  const width = useStore((state) => state.width);
  useEffect(() => {
    if (width > 0 && !wasMoved.current) void fitView(FIT);
  }, [width, wasMoved, fitView]);
  return (
    <Panel position="bottom-left" className="flex gap-1">
      <Button size="icon" aria-label={graphTexts.zoomOut} icon={<Minus size={16} />} onClick={() => void zoomOut()} />
      <Button size="icon" aria-label={graphTexts.zoomIn} icon={<Plus size={16} />} onClick={() => void zoomIn()} />
      <Button size="icon" aria-label={graphTexts.fit} icon={<Maximize size={16} />} onClick={() => void fitView(FIT)} />
    </Panel>
  );
}
