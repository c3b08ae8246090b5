-- database: pool

-- name: original_of_video
SELECT original_file_id FROM videos WHERE tenant_id = :tenant_id AND id = :video_id AND user_id = :user_id
