import { useQuery } from "@tanstack/react-query";
import { RefreshCw } from "lucide-react";
import { Button, PageHead, Time } from "@/design";
import { Pending } from "@/parts/Pending";
import { useRole } from "@/parts/useRole";
import { useTitle } from "@/parts/useTitle";
import { healthTexts as texts } from "@/texts/health";
import { FindingRow } from "./FindingRow";
import { countOf, worstFirst } from "./findings";
import { healthQuery } from "./queries";
import { TestAlert } from "./TestAlert";

export function HealthPage() {
  useTitle(texts.title);
  const { mayOperate } = useRole();
  const { data: health, error, refetch, isFetching } = useQuery(healthQuery);
  return (
    <div className="max-w-5xl">
      <PageHead
        title={texts.title}
        text={texts.text}
        actions={
          <Button busy={isFetching} icon={<RefreshCw size={16} />} onClick={() => void refetch()}>
            {texts.again}
          </Button>
        }
      />
      {!health ? (
        <Pending query={{ error, refetch }} className="h-64" />
      ) : (
        <>
          <p role="status" className="mb-3">
            <span className="font-[550]">
              {texts.summary(countOf(health.findings, "problem"), countOf(health.findings, "warning"))}
            </span>{" "}
            <span className="text-muted">
              {texts.checked} <Time at={health.at} />.
            </span>
          </p>
          <ul aria-label={texts.list} className="panel divide-y">
            {worstFirst(health.findings).map((finding, index) => (
              <FindingRow key={index} finding={finding} />
            ))}
          </ul>
        </>
      )}
      {mayOperate && <TestAlert />}
    </div>
  );
}
