import { useQuery } from "@tanstack/react-query";
import { Outlet } from "@tanstack/react-router";
import { ShieldAlert } from "lucide-react";
import { meQuery } from "@/api/queries";
import { Empty } from "@/design";
import { operateTexts } from "@/texts/operate";
import { seesOperate } from "./navigation";

export function OperatorArea() {
  const { data } = useQuery(meQuery);
  if (data && !seesOperate(data.role)) {
    return <Empty isPage icon={<ShieldAlert size={20} />} title={operateTexts.notAllowed} text={operateTexts.notAllowedText} />;
  }
  return <Outlet />;
}
