"""Files, videos, uploads, and the storage backends their bytes live in."""
