import { useQuery } from "@tanstack/react-query";
import { Images, SearchX } from "lucide-react";
import { meQuery } from "@/api/queries";
import { Button } from "@/design/Button";
import { CopyButton } from "@/design/CopyButton";
import { Empty } from "@/design/Empty";
import { effectTexts } from "@/texts/effects";

interface Props {
  /** Shown if effects exist but none matches the search. */
  isFiltered: boolean;
  search: string;
  onShowAll: () => void;
}

export function NoEffects({ isFiltered, search, onShowAll }: Props) {
  const me = useQuery(meQuery);
  if (isFiltered) {
    return (
      <Empty
        icon={<SearchX size={20} />}
        title={effectTexts.noMatch(search)}
        text={effectTexts.noMatchText}
        action={<Button onClick={onShowAll}>{effectTexts.showAll}</Button>}
      />
    );
  }
  const isOperator = me.data !== undefined && me.data.role !== "user";
  return (
    <Empty
      icon={<Images size={20} />}
      title={effectTexts.none}
      text={isOperator ? effectTexts.noneOperator : effectTexts.noneText}
      action={
        isOperator && (
          <div className="flex max-w-full items-center gap-1 rounded-s border bg-panel pl-3">
            <code className="overflow-x-auto py-2 whitespace-nowrap">{effectTexts.noneCommand}</code>
            <CopyButton text={effectTexts.noneCommand} label={effectTexts.noneCommand} />
          </div>
        )
      }
    />
  );
}
