import { useQuery } from "@tanstack/react-query";
import { KeyRound, Plus } from "lucide-react";
import { useState } from "react";
import { Button, Empty, Skeleton } from "@/design";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { keyTexts } from "@/texts/account";
import { CreateKeyDialog } from "./CreateKeyDialog";
import { KeyList } from "./KeyList";
import { apiKeysQuery } from "./queries";

export function KeysTab() {
  const [isCreating, setCreating] = useState(false);
  const query = useQuery(apiKeysQuery);
  const create = (
    <Button look="go" onClick={() => setCreating(true)} icon={<Plus size={16} aria-hidden />}>
      {keyTexts.create}
    </Button>
  );
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
      {query.isError ? (
        <ProblemPanel error={query.error} onRetry={() => void query.refetch()} />
      ) : query.data === undefined ? (
        <Skeleton className="h-48" />
      ) : query.data.length === 0 ? (
        <div className="panel">
          <Empty icon={<KeyRound size={20} />} title={keyTexts.none} text={keyTexts.noneText} action={create} />
        </div>
      ) : (
        <>
          <div className="flex flex-wrap items-center justify-between gap-4">
            <p className="max-w-prose text-muted">{keyTexts.text}</p>
            {create}
          </div>
          <KeyList apiKeys={query.data} />
        </>
      )}
      {isCreating && <CreateKeyDialog onClose={() => setCreating(false)} />}
    </div>
  );
}
