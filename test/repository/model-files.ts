import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

/** Path relative to a repository → contents. A path that ends in `/` is an empty folder. */
export type FileTree = Readonly<Record<string, string>>;

/** A folder of its own in the system's temporary folder, which `remove` takes away. */
export class ScratchFolder {
  readonly path: string;

  static async create(files: FileTree = {}): Promise<ScratchFolder> {
    const folder = new ScratchFolder(await mkdtemp(join(tmpdir(), 'nereid-repository-')));
    await folder.write(files);
    return folder;
  }

  private constructor(path: string) {
    this.path = path;
  }

  async write(files: FileTree): Promise<void> {
    for (const [path, text] of Object.entries(files)) {
      const target = join(this.path, path);
      if (path.endsWith('/')) {
        await mkdir(target, { recursive: true });
        continue;
      }
      await mkdir(dirname(target), { recursive: true });
      await writeFile(target, text);
    }
  }

  async remove(): Promise<void> {
    await rm(this.path, { recursive: true, force: true });
  }
}
