import { freshKey } from "@client/keys";
import { Plus } from "lucide-react";
import { type DragEvent, useState } from "react";
import { Button, classes } from "@/design";
import type { Actor } from "@/parts/actors";
import { notify } from "@/parts/notify";
import { editorTexts } from "@/texts/pipelines";
import { emptyStep, MAX_STEPS, moved, namesOf, type StepDraft, type StepWorkflow, workflowOf } from "./draft";
import { StepCard } from "./StepCard";
import { variablesOf } from "./variables";

interface Props {
  steps: readonly StepDraft[];
  workflows: readonly StepWorkflow[];
  actors: readonly Actor[];
  problems: readonly Record<string, string>[];
  onChange: (change: (steps: StepDraft[]) => StepDraft[]) => void;
}

/** The steps in order. Users move them by dragging the handles, or with buttons. */
export function StepList({ steps, workflows, actors, problems, onChange }: Props) {
  const [dragged, setDragged] = useState<number | null>(null);
  const [over, setOver] = useState<number | null>(null);
  const [announcement, setAnnouncement] = useState("");
  const names = steps.map((step) => step.name);
  const used = steps.map((step) => variablesOf(namesOf(step, workflowOf(step, workflows))));
  const move = (from: number, to: number) => {
    if (from === to) return;
    const { key, name } = steps[from]!;
    onChange((now) => moved(now, from, to));
    setAnnouncement(editorTexts.movedTo(name, to + 1));
    // A card that moves within the page loses the focus of its button.
    requestAnimationFrame(() => {
      const up = document.getElementById(`up-${key}`) as HTMLButtonElement | null;
      const down = document.getElementById(`down-${key}`) as HTMLButtonElement | null;
      (to < from ? (up?.disabled ? down : up) : down?.disabled ? up : down)?.focus();
    });
  };
  const remove = (index: number) => {
    const gone = steps[index]!;
    onChange((now) => now.filter((each) => each.key !== gone.key));
    const undo = () => onChange((now) => [...now.slice(0, index), gone, ...now.slice(index)]);
    void notify(editorTexts.stepRemoved(gone.name || editorTexts.stepNumber(index + 1)), {
      action: { label: editorTexts.undo, onClick: undo },
    });
  };
  const onDragStart = (event: DragEvent, index: number) => {
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", names[index] ?? "");
    const card = event.currentTarget.closest("li");
    if (card) event.dataTransfer.setDragImage(card, 24, 24);
    setDragged(index);
  };
  const onDrop = (index: number) => {
    if (dragged !== null) move(dragged, index);
    setDragged(null);
    setOver(null);
  };
  return (
    <>
      <ol className="grid gap-3">
        {steps.map((step, index) => (
          <li
            key={step.key}
            aria-label={step.name || editorTexts.stepNumber(index + 1)}
            onDragOver={(event) => {
              if (dragged === null) return;
              event.preventDefault();
              setOver(index);
            }}
            onDrop={(event) => {
              event.preventDefault();
              onDrop(index);
            }}
            className={classes(
              "panel p-4 transition-opacity duration-100 sm:p-5",
              dragged === index && "opacity-50",
              over === index && dragged !== null && dragged !== index && "outline-2 outline-accent",
            )}
          >
            <StepCard
              step={step}
              index={index}
              names={names}
              known={[...new Set(used.filter((_, place) => place !== index).flat())]}
              workflows={workflows}
              actors={actors}
              problems={problems[index] ?? {}}
              onChange={(change) =>
                onChange((now) => now.map((each) => (each.key === step.key ? { ...each, ...change } : each)))
              }
              onMove={(to) => move(index, to)}
              onRemove={() => remove(index)}
              onDragStart={(event) => onDragStart(event, index)}
              onDragEnd={() => {
                setDragged(null);
                setOver(null);
              }}
            />
          </li>
        ))}
      </ol>
      <Button
        className="mt-3 w-full border-dashed"
        disabled={steps.length >= MAX_STEPS}
        onClick={() => onChange((now) => [...now, emptyStep(freshKey(), "")])}
        icon={<Plus size={16} />}
      >
        {steps.length === 0 ? editorTexts.firstStep : editorTexts.addStep}
      </Button>
      <p role="status" className="sr-only">
        {announcement}
      </p>
    </>
  );
}
