import { SearchX } from "lucide-react";
import { Empty } from "@/design/Empty";
import { LinkButton } from "@/parts/LinkButton";
import { useTitle } from "@/parts/useTitle";
import { batchTexts } from "@/texts/batch";

export function BatchNotFound() {
  useTitle(batchTexts.notFound);
  return (
    <Empty
      icon={<SearchX size={20} />}
      title={batchTexts.notFound}
      text={batchTexts.notFoundText}
      isPage
      action={<LinkButton to="/batches">{batchTexts.back}</LinkButton>}
    />
  );
}
