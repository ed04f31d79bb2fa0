// Search from a folder: browsers start no workers for pages of file://, so a frame without a picture does their work.
if (location.protocol === "file:") {
  window.Worker = class FileWorker extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.documentElement.append(frame)
      this.inside = frame.contentWindow
      const load = address =>
        new Promise((done, failed) => {
          const script = this.inside.document.createElement("script")
          script.src = address
          script.onload = done
          script.onerror = failed
          this.inside.document.head.append(script)
        })
      this.inside.postMessage = data => {
        const event = new MessageEvent("message", { data })
        this.dispatchEvent(event)
        this.onmessage?.(event)
      }
      // in a worker it returns when the scripts have run; here it gives a promise, for which Material waits
      this.inside.importScripts = (...addresses) =>
        addresses.reduce((before, address) => before.then(() => load(new URL(address, url).href)), Promise.resolve())
      load(url).then(() => {
        this.ready = true
        this.waiting.splice(0).forEach(data => this.postMessage(data))
      })
    }

    postMessage(data) {
      if (this.ready) {
        const event = new MessageEvent("message", { data })
        this.inside.dispatchEvent(event)
      } else {
        this.waiting.push(data)
      }
    }

    terminate() {
      this.inside.frameElement.remove()
    }
  }
}
