import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Ellipsis, Pencil, Trash2 } from "lucide-react";
import { useState } from "react";
import type { Schemas } from "@/api/types";
import { Button, Menu, MenuItem } from "@/design";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { fleetTexts as texts } from "@/texts/fleets";
import { EditFleetDialog } from "./EditFleetDialog";
import { fleetTokensQuery } from "./queries";
import { useDeleteFleet } from "./useFleetActions";

export function FleetActions({ fleet }: { fleet: Schemas["Fleet"] }) {
  const [dialog, setDialog] = useState<"edit" | "delete" | null>(null);
  const close = () => setDialog(null);
  return (
    <>
      <Button icon={<Pencil size={16} />} onClick={() => setDialog("edit")}>
        {texts.edit}
      </Button>
      <Menu
        trigger={
          <Button look="quiet" size="icon" aria-label={texts.actionsOf(fleet.name)} icon={<Ellipsis size={18} />} />
        }
      >
        <MenuItem danger icon={<Trash2 size={16} />} onSelect={() => setDialog("delete")}>
          {texts.delete}
        </MenuItem>
      </Menu>
      {dialog === "edit" && <EditFleetDialog fleet={fleet} onClose={close} />}
      {dialog === "delete" && <DeleteFleetDialog fleet={fleet} onClose={close} />}
    </>
  );
}

function DeleteFleetDialog({ fleet, onClose }: { fleet: Schemas["Fleet"]; onClose: () => void }) {
  const navigate = useNavigate();
  const { data: tokens } = useQuery(fleetTokensQuery(fleet.id));
  const remove = useDeleteFleet(fleet, () => void navigate({ to: "/operate/fleets" }));
  return (
    <ConfirmDialog
      danger
      title={texts.deleteTitle(fleet.name)}
      text={texts.deleteText(tokens?.items.length ?? 0)}
      action={texts.deleteIt}
      busy={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    />
  );
}
