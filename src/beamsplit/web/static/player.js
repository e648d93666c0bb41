// Steps as a film: they may come faster than an eye can follow.

const PAUSE = 45; // milliseconds from one to the next

const still = window.matchMedia("(prefers-reduced-motion: reduce)");

export class Player {
  /** `show` is called with steps, and at the end with all that was found. */
  constructor(show) {
    this.show = show;
    this.waiting = [];
    this.timer = 0;
    this.ended = null;
  }

  add(step) {
    if (still.matches) return;
    this.waiting.push(step);
    if (!this.timer) this.next();
  }

  /** Play what is left; the promise is for when that is done. */
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
    // Whoever is far behind leaves some out.
    if (this.waiting.length > 30) this.waiting.splice(0, this.waiting.length - 30);
    this.show(step);
    this.timer = setTimeout(() => this.next(), PAUSE);
  }
}
