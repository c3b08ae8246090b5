import { CopyButton, classes } from "@/design";
import { operatorJobTexts as texts } from "@/texts/operator-job";

/** Id of a request, as the log has it. The button does not make its row higher. */
export function RequestId({ id, className }: { id: string; className?: string }) {
  return (
    <span className={classes("flex min-w-0 items-center", className)}>
      <code className="min-w-0 truncate" title={id}>
        {id}
      </code>
      <span className="-my-2 flex shrink-0">
        <CopyButton text={id} label={texts.copyRequestId(id)} />
      </span>
    </span>
  );
}
