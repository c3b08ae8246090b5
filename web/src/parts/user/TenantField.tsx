import { useInfiniteQuery } from "@tanstack/react-query";
import { useId } from "react";
import { Field, Input } from "@/design";
import { tenantsQuery } from "@/parts/tenant/queries";
import { addUserTexts as texts } from "@/texts/users";

/** The slug of a tenant, with suggestions that contain the typed text. */
export function TenantField({
  value,
  onChange,
  error,
}: {
  value: string;
  onChange: (value: string) => void;
  error: string | null;
}) {
  const list = useId();
  const { data } = useInfiniteQuery(tenantsQuery(""));
  return (
    <Field label={texts.tenant} hint={texts.tenantHint} error={error}>
      <Input
        list={list}
        value={value}
        autoComplete="off"
        maxLength={63}
        onChange={(event) => onChange(event.target.value)}
      />
      <datalist id={list}>
        {data?.pages
          .flatMap((page) => page.items)
          .map((tenant) => (
            <option key={tenant.id} value={tenant.slug}>
              {tenant.name}
            </option>
          ))}
      </datalist>
    </Field>
  );
}
