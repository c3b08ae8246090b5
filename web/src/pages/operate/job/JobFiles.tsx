import { useNavigate, useSearch } from "@tanstack/react-router";
import { LockKeyhole } from "lucide-react";
import type { AdminJob } from "@/parts/job/queries";
import { readableResult } from "@/parts/job/results";
import { MediaPlayer } from "@/parts/MediaPlayer";
import { mediaOf } from "@/parts/media";
import { ResultView } from "@/parts/ResultView";
import { useRole } from "@/parts/useRole";
import { useSteadyUrls } from "@/parts/useSteadyUrls";
import { operatorJobTexts as texts } from "@/texts/operator-job";
import { FileList } from "./FileList";

/** Inputs and results of the job, with one player. Viewers do not see files of users. */
export function JobFiles({ job }: { job: AdminJob }) {
  const { me, mayOperate } = useRole();
  const { file: wanted } = useSearch({ from: "/framed/operator/operate/jobs/$id" });
  const navigate = useNavigate({ from: "/operate/jobs/$id" });
  const outputs = useSteadyUrls(job.outputs ?? []);
  const inputs = useSteadyUrls(job.inputs ?? []);
  const result = readableResult(job.result);
  if (!me) return null;
  if (!mayOperate) {
    return (
      <section className="panel flex items-center gap-3 p-5 text-muted" aria-label={texts.files}>
        <LockKeyhole size={18} aria-hidden className="shrink-0" />
        <p>
          <span className="text-text">{texts.filesHidden}</span> {texts.filesHiddenText}
        </p>
      </section>
    );
  }
  const files = [...outputs, ...inputs];
  if (files.length === 0 && !result) return null;
  const chosen = files.find((file) => file.file_id === wanted) ?? files[0];
  const media = chosen && mediaOf(chosen);
  const choose = (id: string) =>
    void navigate({
      search: (before) => ({ ...before, file: id === files[0]?.file_id ? undefined : id }),
      replace: true,
      resetScroll: false,
    });
  return (
    <section className="panel p-5" aria-label={texts.files}>
      <h2 className="mb-4">{texts.files}</h2>
      {chosen && (
        <div className="grid items-start gap-5 lg:grid-cols-[minmax(0,1.6fr)_minmax(280px,1fr)]">
          {media ? (
            <MediaPlayer key={chosen.file_id} media={media} maxHeight="46dvh" />
          ) : (
            <p className="text-muted">{texts.fileGone}</p>
          )}
          <div className="grid min-w-0 gap-5">
            <FileList title={texts.outputs} files={outputs} chosen={chosen.file_id} onChoose={choose} />
            <FileList title={texts.inputs} files={inputs} chosen={chosen.file_id} onChoose={choose} />
          </div>
        </div>
      )}
      {result && (
        <div className={chosen ? "mt-5" : undefined}>
          <h3 className="mb-2 text-s text-muted">{texts.result}</h3>
          <ResultView result={result} />
        </div>
      )}
    </section>
  );
}
