"""Images, clips, animations and sound, as the nodes of Lightbox read and write them."""
