// Shows steps as an animation, because they may come faster than one can follow.

const PAUSE = 45; // milliseconds between two steps

const reducedMotion = window.matchMedia("(prefers-reduced-motion: reduce)");

export class Player {
  /** `show` is called with each step that is played. */
  constructor(show) {
    this.show = show;
    this.waiting = [];
    this.timer = 0;
    this.ended = null;
  }

  add(step) {
    if (reducedMotion.matches) return;
    this.waiting.push(step);
    if (!this.timer) this.next();
  }

  /** Return a promise that resolves when the remaining steps have been played. */
  end() {
    if (!this.timer && !this.waiting.length) return Promise.resolve();
    return new Promise((resolve) => (this.ended = resolve));
  }

  stop() {
    clearTimeout(this.timer);
    this.waiting = [];
    this.ended?.();
  }

  next() {
    const step = this.waiting.shift();
    if (!step) {
      this.timer = 0;
      this.ended?.();
      return;
    }
    // Skip steps when far behind.
    if (this.waiting.length > 30) this.waiting.splice(0, this.waiting.length - 30);
    this.show(step);
    this.timer = setTimeout(() => this.next(), PAUSE);
  }
}
