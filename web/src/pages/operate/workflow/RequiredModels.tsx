import { Plus, Trash2 } from "lucide-react";
import { fieldReason } from "@/api/problems";
import type { Schemas } from "@/api/types";
import { Button, Input } from "@/design";
import { Refusal } from "@/parts/Refusal";
import { requirementsTexts as texts } from "@/texts/requirements";
import { isHash } from "./requirements";

type RequiredModel = Schemas["RequiredModel"];

interface Props {
  models: readonly RequiredModel[];
  refused: unknown;
  mayChange: boolean;
  onChange: (models: RequiredModel[]) => void;
}

/** Model files, each with an optional hash for files whose exact version matters. */
export function RequiredModels({ models, refused, mayChange, onChange }: Props) {
  const set = (place: number, values: Partial<RequiredModel>) =>
    onChange(models.map((each, at) => (at === place ? { ...each, ...values } : each)));
  return (
    <div role="group" aria-labelledby="required-models" className="grid gap-2">
      <h3 id="required-models" className="text-s font-[550]">
        {texts.models}
      </h3>
      <p className="text-s text-muted">{texts.modelsHint}</p>
      {models.length > 0 && (
        <ul className="grid gap-3">
          {models.map((model, place) => (
            <li key={place} className="grid gap-1.5">
              <div className="flex flex-wrap gap-2 sm:flex-nowrap">
                <Input
                  aria-label={texts.modelName(place + 1)}
                  placeholder={texts.model}
                  className="min-w-0 flex-1 basis-48"
                  value={model.name}
                  maxLength={300}
                  autoComplete="off"
                  spellCheck={false}
                  onChange={(event) => set(place, { name: event.target.value })}
                />
                <Input
                  aria-label={texts.modelHash(place + 1)}
                  placeholder={texts.hashPlaceholder}
                  className="min-w-0 flex-1 basis-48 font-mono"
                  value={model.sha256 ?? ""}
                  maxLength={64}
                  autoComplete="off"
                  spellCheck={false}
                  aria-invalid={Boolean(model.sha256 && !isHash(model.sha256)) || undefined}
                  onChange={(event) => set(place, { sha256: event.target.value.trim().toLowerCase() || null })}
                />
                {mayChange && (
                  <Button
                    look="quiet"
                    size="icon"
                    aria-label={texts.removeModel(model.name || String(place + 1))}
                    icon={<Trash2 size={15} />}
                    onClick={() => onChange(models.filter((_, at) => at !== place))}
                  />
                )}
              </div>
              <Problem model={model} place={place} refused={refused} />
            </li>
          ))}
        </ul>
      )}
      {mayChange && (
        <Button
          size="s"
          className="justify-self-start"
          icon={<Plus size={15} />}
          onClick={() => onChange([...models, { name: "", sha256: null }])}
        >
          {texts.addModel}
        </Button>
      )}
    </div>
  );
}

function Problem({ model, place, refused }: { model: RequiredModel; place: number; refused: unknown }) {
  const wrong = model.sha256 && !isHash(model.sha256) ? texts.wrongHash : null;
  const reason =
    wrong ??
    fieldReason(refused, `requirements.models.${place}.name`) ??
    fieldReason(refused, `requirements.models.${place}.sha256`);
  return <Refusal error={reason} />;
}
