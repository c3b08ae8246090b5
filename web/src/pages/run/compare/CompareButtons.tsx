import { ArrowDown, ArrowLeft, ArrowRight, ArrowUp, Undo2 } from "lucide-react";
import { Button } from "@/design";
import { compareTexts } from "@/texts/runs";
import type { Pairs } from "./usePairs";

/** Buttons for touch and mouse. Each button shows its key. */
export function CompareButtons({ pairs }: { pairs: Pairs }) {
  const isEmpty = pairs.waiting.length === 0;
  return (
    <div className="grid justify-items-center gap-3">
      <div className="flex w-full max-w-2xl flex-wrap justify-center gap-2">
        <Button className="grow" disabled={isEmpty} icon={<ArrowLeft size={16} />} onClick={() => pairs.judge("left")}>
          {compareTexts.left}
        </Button>
        <Button className="grow" disabled={isEmpty} icon={<ArrowUp size={16} />} onClick={() => pairs.judge("both")}>
          {compareTexts.both}
        </Button>
        <Button
          className="grow"
          disabled={isEmpty}
          icon={<ArrowDown size={16} />}
          onClick={() => pairs.judge("neither")}
        >
          {compareTexts.neither}
        </Button>
        <Button
          className="grow"
          disabled={isEmpty}
          icon={<ArrowRight size={16} />}
          onClick={() => pairs.judge("right")}
        >
          {compareTexts.right}
        </Button>
        <Button className="grow" disabled={!pairs.canUndo} icon={<Undo2 size={16} />} onClick={pairs.undo}>
          {compareTexts.undo}
        </Button>
      </div>
      <p className="text-s text-muted touch:hidden">{compareTexts.keys}</p>
    </div>
  );
}
