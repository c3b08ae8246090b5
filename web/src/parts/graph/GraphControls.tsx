import { Panel, useReactFlow } from "@xyflow/react";
import { Maximize, Minus, Plus } from "lucide-react";
import { Button } from "@/design";
import { graphTexts } from "@/texts/graph";

export const FIT = { padding: 0.12, maxZoom: 1 };

export function GraphControls() {
  const { zoomIn, zoomOut, fitView } = useReactFlow();
  return (
    <Panel position="bottom-left" className="flex gap-1">
      <Button size="icon" aria-label={graphTexts.zoomOut} icon={<Minus size={16} />} onClick={() => void zoomOut()} />
      <Button size="icon" aria-label={graphTexts.zoomIn} icon={<Plus size={16} />} onClick={() => void zoomIn()} />
      <Button size="icon" aria-label={graphTexts.fit} icon={<Maximize size={16} />} onClick={() => void fitView(FIT)} />
    </Panel>
  );
}
