import { ArrowDown, ArrowUp, GripVertical, Trash2 } from "lucide-react";
import type { DragEvent } from "react";
import { Button } from "@/design";
import { Refusal } from "@/parts/Refusal";
import { editorTexts } from "@/texts/pipelines";

interface Props {
  name: string;
  stepKey: string;
  index: number;
  count: number;
  error?: string;
  onName: (name: string) => void;
  onMove: (to: number) => void;
  onRemove: () => void;
  onDragStart: (event: DragEvent) => void;
  onDragEnd: () => void;
}

export function StepHead({
  name,
  stepKey,
  index,
  count,
  error,
  onName,
  onMove,
  onRemove,
  onDragStart,
  onDragEnd,
}: Props) {
  const called = name || editorTexts.stepNumber(index + 1);
  return (
    <div className="grid gap-1">
      <div className="flex items-center gap-1">
        {/* Users without a mouse use the buttons. */}
        <span
          draggable
          onDragStart={onDragStart}
          onDragEnd={onDragEnd}
          title={editorTexts.drag(called)}
          data-testid="drag"
          className="-ml-2 grid h-9 w-6 shrink-0 cursor-grab place-items-center text-muted hover:text-text active:cursor-grabbing touch:hidden"
        >
          <GripVertical size={16} aria-hidden />
        </span>
        <span
          className="num grid size-6 shrink-0 place-items-center rounded-full bg-hover text-xs font-[600]"
          aria-hidden="true"
        >
          {index + 1}
        </span>
        <input
          aria-label={`${editorTexts.stepNumber(index + 1)}: ${editorTexts.stepName}`}
          aria-invalid={error ? true : undefined}
          value={name}
          maxLength={200}
          onChange={(event) => onName(event.target.value)}
          className="control min-w-0 grow border-transparent! bg-transparent! font-[600] hover:border-line-strong! focus-visible:border-accent! aria-invalid:border-bad!"
        />
        <Button
          id={`up-${stepKey}`}
          look="quiet"
          size="icon"
          aria-label={editorTexts.up(called)}
          title={editorTexts.up(called)}
          disabled={index === 0}
          onClick={() => onMove(index - 1)}
          icon={<ArrowUp size={16} />}
        />
        <Button
          id={`down-${stepKey}`}
          look="quiet"
          size="icon"
          aria-label={editorTexts.down(called)}
          title={editorTexts.down(called)}
          disabled={index === count - 1}
          onClick={() => onMove(index + 1)}
          icon={<ArrowDown size={16} />}
        />
        <Button
          look="quiet"
          size="icon"
          aria-label={editorTexts.removeStep(called)}
          title={editorTexts.removeStep(called)}
          onClick={onRemove}
          icon={<Trash2 size={16} />}
        />
      </div>
      <Refusal error={error} />
    </div>
  );
}
