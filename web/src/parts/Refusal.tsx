import { explain } from "@/api/problems";

/** The reason why the API refused a request, as one line of a form or a dialog. */
export function Refusal({ error }: { error: Error | string | null | undefined }) {
  return error ? (
    <p role="alert" className="text-s text-bad">
      {typeof error === "string" ? error : explain(error)}
    </p>
  ) : null;
}
