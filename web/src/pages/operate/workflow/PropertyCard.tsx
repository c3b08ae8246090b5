import { ArrowDown, ArrowUp, ChevronDown, Trash2 } from "lucide-react";
import { ApiError } from "@/api/problems";
import { Badge, Button, classes } from "@/design";
import { labelOf } from "@/parts/form/values";
import { type ApiGraph, type Property, placesOf } from "@/parts/workflow/draft";
import { workflowsTexts } from "@/texts/workflows";
import { PropertyFields } from "./PropertyFields";

const texts = workflowsTexts.property;

interface Props {
  property: Property;
  index: number;
  count: number;
  graph: ApiGraph | null;
  isOpen: boolean;
  onToggle: () => void;
  refused: unknown;
  /** null for users who cannot edit. */
  actions: { change: (values: Partial<Property>) => void; move: (by: -1 | 1) => void; remove: () => void } | null;
}

export function PropertyCard({ property, index, count, graph, isOpen, onToggle, refused, actions }: Props) {
  const problems = problemsOf(refused, index);
  const places = placesOf(graph, property.placeholder);
  const where = places.map(({ node, input }) => `${node} (${input})`).join(", ");
  const setBy = property.is_primary_input
    ? texts.byUpload
    : property.user_configurable
      ? texts.byUsers
      : texts.byEffects;
  return (
    <li className={classes("panel", problems.size > 0 && "border-bad")}>
      <button
        type="button"
        aria-expanded={isOpen}
        onClick={onToggle}
        className="flex min-h-12 w-full items-center gap-3 rounded-m px-4 py-2 text-left hover:bg-hover"
      >
        <span className="min-w-0 flex-1">
          <span className="block truncate font-[550]">
            {labelOf({ key: property.key, label: property.label ?? "" })}
          </span>
          <code className="block truncate text-xs text-muted">{property.key}</code>
        </span>
        <span className="flex flex-wrap justify-end gap-1.5">
          <Badge shape={false}>{workflowsTexts.types[property.type]}</Badge>
          <Badge tone={property.is_primary_input || property.user_configurable ? "run" : "plain"} shape={false}>
            {setBy}
          </Badge>
        </span>
        <ChevronDown
          size={16}
          aria-hidden
          className={classes("shrink-0 text-muted transition-transform duration-100", isOpen && "rotate-180")}
        />
      </button>
      {!isOpen && problems.size > 0 && <p className="px-4 pb-3 text-s text-bad">{[...problems.values()][0]}</p>}
      {isOpen && (
        <div className="grid gap-4 border-t p-4">
          <p className={classes("text-s [overflow-wrap:anywhere]", places.length === 0 ? "text-bad" : "text-muted")}>
            {places.length === 0 ? texts.nowhere(property.placeholder) : texts.inNodes(property.placeholder, where)}
          </p>
          {problems.has("placeholder") && <p className="text-s text-bad">{problems.get("placeholder")}</p>}
          <fieldset disabled={actions === null} className="contents">
            <PropertyFields
              property={property}
              problems={problems}
              change={actions?.change ?? (() => undefined)}
              isReadOnly={actions === null}
            />
          </fieldset>
          {actions && (
            <div className="flex justify-end gap-1">
              <Button
                look="quiet"
                size="icon"
                disabled={index === 0}
                aria-label={texts.up(property.key)}
                icon={<ArrowUp size={16} />}
                onClick={() => actions.move(-1)}
              />
              <Button
                look="quiet"
                size="icon"
                disabled={index === count - 1}
                aria-label={texts.down(property.key)}
                icon={<ArrowDown size={16} />}
                onClick={() => actions.move(1)}
              />
              <Button
                look="quiet"
                size="icon"
                aria-label={texts.remove(property.key)}
                icon={<Trash2 size={16} />}
                onClick={actions.remove}
              />
            </div>
          )}
        </div>
      )}
    </li>
  );
}

/** Reasons per field, for example `default` and `limits.max`. A test run names them below `draft`. */
function problemsOf(refused: unknown, index: number): Map<string, string> {
  const errors = refused instanceof ApiError ? (refused.problem.errors ?? []) : [];
  const start = `properties.${index}.`;
  return new Map(
    errors.filter((each) => each.field.startsWith(start)).map((each) => [each.field.slice(start.length), each.reason]),
  );
}
