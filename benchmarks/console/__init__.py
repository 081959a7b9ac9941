"""What the questions about the console share: its process, a store with everything that pages show, people who read pages."""
