import { useNavigate } from "@tanstack/react-router";
import { ListFilter, X } from "lucide-react";
import { type FormEvent, useState } from "react";
import { Button, classes, Field, Input } from "@/design";
import { localOf, utcOf } from "@/parts/local-times";
import { auditTexts as texts } from "@/texts/audit";
import { type AuditSearch, hasFilters, validAuditSearch } from "./filters";

export function AuditFilters({ search }: { search: AuditSearch }) {
  const navigate = useNavigate({ from: "/operate/audit" });
  // A phone has no room for the filters above the list.
  const [isOpen, setOpen] = useState(false);
  const [actor, setActor] = useState(search.actor ?? "");
  const [action, setAction] = useState(search.action ?? "");
  const [subject, setSubject] = useState(search.subject ?? "");
  const [since, setSince] = useState(localOf(search.since));
  const [until, setUntil] = useState(localOf(search.until));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    // The type belongs to the object that the user clicked.
    const type = subject.trim() === (search.subject ?? "") ? search.type : undefined;
    void navigate({
      search: validAuditSearch({
        actor,
        action,
        subject,
        type,
        tenant: search.tenant,
        since: since && utcOf(since),
        until: until && utcOf(until),
      }),
    });
  };
  return (
    <>
      <Button
        className="mb-4 sm:hidden"
        aria-expanded={isOpen}
        icon={<ListFilter size={16} />}
        onClick={() => setOpen(!isOpen)}
      >
        {texts.filters}
      </Button>
      <form
        onSubmit={submit}
        aria-label={texts.filters}
        className={classes(
          !isOpen && "max-sm:hidden",
          "mb-4 grid items-end gap-3 sm:grid-cols-2 lg:grid-cols-[1fr_1fr_1fr_auto_auto_auto]",
        )}
      >
        <Field label={texts.actor}>
          <Input
            value={actor}
            placeholder={texts.actorHint}
            maxLength={200}
            onChange={(event) => setActor(event.target.value)}
          />
        </Field>
        <Field label={texts.action}>
          <Input
            value={action}
            placeholder={texts.actionHint}
            maxLength={200}
            onChange={(event) => setAction(event.target.value)}
          />
        </Field>
        <Field label={texts.subject}>
          <Input
            value={subject}
            placeholder={texts.subjectHint}
            maxLength={200}
            onChange={(event) => setSubject(event.target.value)}
          />
        </Field>
        <Field label={texts.since}>
          <Input type="datetime-local" value={since} onChange={(event) => setSince(event.target.value)} />
        </Field>
        <Field label={texts.until}>
          <Input type="datetime-local" value={until} onChange={(event) => setUntil(event.target.value)} />
        </Field>
        <div className="flex gap-2">
          <Button type="submit">{texts.apply}</Button>
          {hasFilters(search) && (
            <Button
              look="quiet"
              size="icon"
              aria-label={texts.clear}
              title={texts.clear}
              icon={<X size={18} />}
              onClick={() => void navigate({ search: {} })}
            />
          )}
        </div>
      </form>
    </>
  );
}
