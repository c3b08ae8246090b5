-- What tasks leave behind. Tasks themselves are jobs with an actor.

CREATE TABLE products (
    tenant_id    uuid NOT NULL,
    id           uuid NOT NULL,
    user_id      uuid NOT NULL,
    url          text NOT NULL,
    title        text NOT NULL,
    description  text NOT NULL DEFAULT '',
    price        text,
    currency     text,
    images       jsonb NOT NULL DEFAULT '[]',
    text         text NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT tenant_is_in_this_pool FOREIGN KEY (tenant_id) REFERENCES pool_tenants (tenant_id),
    CONSTRAINT job_exists FOREIGN KEY (tenant_id, id) REFERENCES ai_jobs (tenant_id, id),
    CONSTRAINT images_is_a_list CHECK (jsonb_typeof(images) = 'array')
);
COMMENT ON TABLE products IS
    'A product that a scrape found, for the texts, images and videos that are made from it.';
COMMENT ON COLUMN products.id IS 'Id of the job that scraped it.';
COMMENT ON COLUMN products.text IS 'The text of the page.';
CREATE INDEX products_of_user ON products (user_id, id);

-- For jobs: the product that a scrape found is written with the end of its job.
CREATE FUNCTION product_keep(the_tenant uuid, the_user uuid, the_job uuid, product jsonb) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO products (tenant_id, id, user_id, url, title, description, price, currency, images, text)
    SELECT the_tenant, the_job, the_user, p.url, p.title, p.description, p.price, p.currency, p.images, p.text
    FROM jsonb_to_record(product) AS p (
        url text, title text, description text, price text, currency text, images jsonb, text text);
END $$;
