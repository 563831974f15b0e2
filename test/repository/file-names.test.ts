import { describe, expect, it } from 'vitest';
import {
  configCandidates,
  fileRole,
  folderRole,
  isIgnoredName,
  isModelFolderName,
} from '../../src/repository/file-names.js';

describe('isIgnoredName', () => {
  it.each([
    '.git',
    '..data',
    '.DS_Store',
    '.#config.pbtxt',
    '.model.onnx.swp',
    'model.onnx.tmp',
    'config.pbtxt~',
    '#config.pbtxt#',
    'x.swp',
    '4913',
  ])('leaves out the file %s', (name) => {
    expect(isIgnoredName(name, 'file')).toBe(true);
  });

  it.each(['config.pbtxt', '49130', 'tmp', 'a.tmpl', '~a', 'swp', '#', '##', '#a', 'a#'])(
    'counts the file %s',
    (name) => {
      expect(isIgnoredName(name, 'file')).toBe(false);
    },
  );

  it('counts a folder 4913, which is a version', () => {
    expect(isIgnoredName('4913', 'folder')).toBe(false);
    expect(isIgnoredName('upload.tmp', 'folder')).toBe(true);
  });
});

describe('folderRole', () => {
  it.each(['0', '1', '10', '9223372036854775807'])('takes %s for a version', (name) => {
    expect(folderRole(name)).toEqual({ kind: 'version' });
  });

  it.each(['warmup', 'v1', '-1', '1.0', '1 ', '１'])('takes %s for something else', (name) => {
    expect(folderRole(name)).toEqual({ kind: 'rest' });
  });

  it.each([
    ['001', 'which contains leading zeros in its directory name'],
    ['00', 'which contains leading zeros in its directory name'],
    ['9223372036854775808', 'which fails to convert to integral number'],
  ])('says why %s is not a version', (name, reason) => {
    expect(folderRole(name)).toEqual({
      kind: 'not a version',
      warning: `ignore version directory '${name}' ${reason}`,
    });
  });
});

describe('fileRole', () => {
  it.each([
    ['config.pbtxt', 'config'],
    ['configs/h100.pbtxt', 'config'],
    ['configs/readme.md', 'rest'],
    ['configs/old/h100.pbtxt', 'rest'],
    ['other.pbtxt', 'rest'],
    ['labels.txt', 'rest'],
  ])('%s is %s', (path, role) => {
    expect(fileRole(path)).toBe(role);
  });
});

describe('isModelFolderName', () => {
  it.each(['add_sub', 'modèle', 'a.b', 'with space', '1'])('accepts %s', (name) => {
    expect(isModelFolderName(name)).toBe(true);
  });

  it.each(['', '.', '..', '..x', 'a/b', 'a\\b', 'a\0b', 'x.tmp'])('refuses %j', (name) => {
    expect(isModelFolderName(name)).toBe(false);
  });
});

describe('configCandidates', () => {
  it('prefers the named configuration and falls back to the usual one', () => {
    expect(configCandidates('')).toEqual(['config.pbtxt']);
    expect(configCandidates('h100')).toEqual(['configs/h100.pbtxt', 'config.pbtxt']);
  });
});
