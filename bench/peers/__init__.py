"""The alternatives, each as a developer would write it who needs no more than this."""
