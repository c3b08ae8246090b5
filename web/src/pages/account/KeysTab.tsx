import { useInfiniteQuery } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { useState } from "react";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { Button } from "@/design";
import { useRole } from "@/parts/useRole";
import { KeyTable } from "@/parts/user/KeyTable";
import { keyTexts } from "@/texts/account";
import { CreateKeyDialog } from "./CreateKeyDialog";
import { apiKeysQuery } from "./queries";
import { ServiceKeys } from "./ServiceKeys";

const OF_USER: readonly Schemas["KeyScope"][] = ["read", "submit"];

export function KeysTab() {
  const [isCreating, setCreating] = useState(false);
  const { me, mayManageUsers } = useRole();
  const query = useInfiniteQuery(apiKeysQuery);
  const create = (
    <Button look="go" onClick={() => setCreating(true)} icon={<Plus size={16} aria-hidden />}>
      {keyTexts.create}
    </Button>
  );
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
      {query.data?.pages.some((page) => page.items.length > 0) && (
        <div className="flex flex-wrap items-center justify-between gap-4">
          <p className="max-w-prose text-muted">{keyTexts.text}</p>
          {create}
        </div>
      )}
      <KeyTable
        query={query}
        none={{ title: keyTexts.none, text: keyTexts.noneText, action: create }}
        mayRevoke
        revoke={(id) => api.DELETE("/api/keys/{key_id}", { params: { path: { key_id: id } } })}
        changes={keys.apiKeys}
      />
      {me && mayManageUsers && (
        <div className="mt-6">
          <ServiceKeys me={me} />
        </div>
      )}
      {isCreating && (
        <CreateKeyDialog
          texts={keyTexts}
          scopes={mayManageUsers ? [...OF_USER, "admin"] : OF_USER}
          chosen={OF_USER}
          expiry="90"
          create={(body) => data(api.POST("/api/keys", { body }))}
          changes={keys.apiKeys}
          onClose={() => setCreating(false)}
        />
      )}
    </div>
  );
}
