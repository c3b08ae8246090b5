import { Search } from "lucide-react";
import { COMMAND_KEY, frameTexts } from "@/texts/frame";
import { Brand } from "./Brand";
import { MobileMenu } from "./MobileMenu";

export function TopBar({ onSearch }: { onSearch: () => void }) {
  return (
    <header className="sticky top-0 z-10 border-b bg-bg/85 backdrop-blur-md md:border-transparent">
      <div className="mx-auto flex max-w-page items-center gap-2 px-4 py-2 md:justify-end md:px-8 2xl:max-w-wide">
        <div className="grow md:hidden">
          <Brand />
        </div>
        <button
          type="button"
          onClick={onSearch}
          className="flex size-10 items-center justify-center gap-2 rounded-s text-muted transition-colors duration-100 hover:border-line-strong md:h-9 touch:md:h-10 md:w-72 md:justify-start md:border md:bg-panel md:px-3"
        >
          <Search size={16} aria-hidden />
          <span className="text-s max-md:sr-only">{frameTexts.search}</span>
          <kbd className="ml-auto hidden md:inline touch:hidden" aria-hidden>
            {COMMAND_KEY}
          </kbd>
        </button>
        <div className="md:hidden">
          <MobileMenu />
        </div>
      </div>
    </header>
  );
}
