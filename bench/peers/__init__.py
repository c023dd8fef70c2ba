"""What is compared with: each as it would be written by who needs no more than this."""
