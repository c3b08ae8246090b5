"""Files, videos, uploads, and the storage backends that hold their bytes."""
